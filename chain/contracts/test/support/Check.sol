// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice What the tests ask of forge.
interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function addr(uint256 key) external pure returns (address);
    function attachDelegation(SignedDelegation calldata delegation) external;
    function chainId(uint256 id) external;
    function deal(address account, uint256 balance) external;
    function etch(address account, bytes calldata code) external;
    function expectRevert() external;
    function expectRevert(bytes calldata data) external;
    function expectRevert(bytes4 selector) external;
    function expectEmit() external;
    function getRecordedLogs() external returns (Log[] memory);
    function prank(address sender) external;
    function recordLogs() external;
    function revertToState(uint256 id) external returns (bool);
    function snapshotState() external returns (uint256);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function signAndAttachDelegation(address implementation, uint256 key) external returns (SignedDelegation memory);
    function snapshotGasLastCall(string calldata group, string calldata name) external returns (uint256);
    function store(address account, bytes32 slot, bytes32 value) external;
    function warp(uint256 timestamp) external;

    struct SignedDelegation {
        uint8 v;
        bytes32 r;
        bytes32 s;
        uint64 nonce;
        address implementation;
    }
}

/// @notice Comparisons that say what they found.
abstract contract Check {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    error Differs(string what, uint256 got, uint256 want);
    error DiffersText(string got, string want);

    function eq(uint256 got, uint256 want, string memory what) internal pure {
        if (got != want) revert Differs(what, got, want);
    }

    function eq(address got, address want, string memory what) internal pure {
        eq(uint160(got), uint160(want), what);
    }

    function eq(bytes32 got, bytes32 want, string memory what) internal pure {
        eq(uint256(got), uint256(want), what);
    }

    function eq(string memory got, string memory want) internal pure {
        if (keccak256(bytes(got)) != keccak256(bytes(want))) revert DiffersText(got, want);
    }

    function yes(bool got, string memory what) internal pure {
        eq(got ? 1 : 0, 1, what);
    }

    /// @dev Folds a random number into a range, both ends included.
    function within(uint256 x, uint256 low, uint256 high) internal pure returns (uint256) {
        return low + x % (high - low + 1);
    }

    function signed(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    /// @dev The digest of EIP-712, from its parts as another program would make it.
    function typed(string memory name, uint256 chain, address verifier, bytes32 structHash)
        internal
        pure
        returns (bytes32)
    {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256("1"),
                chain,
                verifier
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }
}
