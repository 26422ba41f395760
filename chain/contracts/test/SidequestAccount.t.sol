// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";
import {IdentityRegistry} from "../src/IdentityRegistry.sol";
import {SidequestAccount} from "../src/SidequestAccount.sol";

/// @notice A wallet that lends the account's code by a real EIP-7702 delegation.
contract SidequestAccountTest is EscrowBase {
    uint256 internal constant KEY = 0x7702;
    SidequestAccount internal code;
    SidequestAccount internal account;
    address internal wallet = vm.addr(KEY);

    function setUp() public override {
        super.setUp();
        code = new SidequestAccount();
        vm.signAndAttachDelegation(address(code), KEY);
        account = SidequestAccount(payable(wallet));
        usd.mint(wallet, PURSE);
        // The delegation takes effect with the next call.
        account.nonceUsed(0);
        eq(wallet.code.length, 23, "delegated");
    }

    function batchDigest(SidequestAccount.Call[] memory calls, uint256 nonce, uint256 deadline)
        internal
        view
        returns (bytes32)
    {
        bytes32[] memory hashes = new bytes32[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            hashes[i] = keccak256(
                abi.encode(
                    keccak256("Call(address target,uint256 value,bytes data)"),
                    calls[i].target,
                    calls[i].value,
                    keccak256(calls[i].data)
                )
            );
        }
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256(
                    "Batch(Call[] calls,uint256 nonce,uint256 deadline)Call(address target,uint256 value,bytes data)"
                ),
                keccak256(abi.encodePacked(hashes)),
                nonce,
                deadline
            )
        );
        return typed("SidequestAccount", block.chainid, wallet, structHash);
    }

    function transfers(uint256 amount) internal view returns (SidequestAccount.Call[] memory calls) {
        calls = new SidequestAccount.Call[](2);
        calls[0] = SidequestAccount.Call(address(usd), 0, abi.encodeCall(IERC20.transfer, (other, amount)));
        calls[1] = SidequestAccount.Call(other, 1 ether, "");
    }

    function test_TheKeysPlainSignatureIsTheAccounts() public view {
        bytes32 digest = keccak256("anything");
        eq(uint32(account.isValidSignature(digest, signed(KEY, digest))), 0x1626ba7e, "the key's");
        eq(uint32(account.isValidSignature(digest, signed(OTHER_KEY, digest))), 0xffffffff, "another's");
        eq(uint32(account.isValidSignature(digest, "")), 0xffffffff, "none");
        eq(uint32(code.isValidSignature(digest, signed(KEY, digest))), 0xffffffff, "not the code's own");
    }

    function test_TheWalletBatchesItsOwnCalls() public {
        vm.deal(wallet, 2 ether);
        vm.prank(wallet);
        account.execute(transfers(5e6));
        eq(usd.balanceOf(other), 5e6, "token");
        eq(other.balance, 1 ether, "value");
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(SidequestAccount.NotSelf.selector, other));
        account.execute(transfers(5e6));
    }

    function test_AnyoneSendsASignedBatchOnceAndInTime() public {
        vm.deal(wallet, 3 ether);
        bytes memory signature = signed(KEY, batchDigest(transfers(5e6), 9, START + 60));
        vm.warp(START + 60);
        vm.expectRevert(abi.encodeWithSelector(SidequestAccount.TooLate.selector, START + 60));
        account.executeSigned(transfers(5e6), 9, START + 60, signature);
        vm.warp(START + 59);
        account.executeSigned(transfers(5e6), 9, START + 60, signature);
        eq(usd.balanceOf(other), 5e6, "token");
        yes(account.nonceUsed(9), "used");
        vm.expectRevert(abi.encodeWithSelector(SidequestAccount.NonceReused.selector, 9));
        account.executeSigned(transfers(5e6), 9, START + 60, signature);
    }

    function test_ASignedBatchCannotBeChangedOrUsedElsewhere() public {
        vm.deal(wallet, 3 ether);
        bytes memory signature = signed(KEY, batchDigest(transfers(5e6), 9, START + 60));
        bytes memory why = abi.encodeWithSelector(SidequestAccount.BadSignature.selector);
        vm.expectRevert(why);
        account.executeSigned(transfers(6e6), 9, START + 60, signature);
        vm.expectRevert(why);
        account.executeSigned(transfers(5e6), 8, START + 60, signature);
        vm.expectRevert(why);
        account.executeSigned(new SidequestAccount.Call[](0), 9, START + 60, signature);
        vm.expectRevert(why);
        code.executeSigned(transfers(5e6), 9, START + 60, signature);
        vm.chainId(block.chainid + 1);
        vm.expectRevert(why);
        account.executeSigned(transfers(5e6), 9, START + 60, signature);
    }

    function test_ABatchIsAllOrNothingAndSaysWhatWasRefused() public {
        vm.deal(wallet, 0);
        vm.prank(wallet);
        vm.expectRevert();
        account.execute(transfers(5e6));
        eq(usd.balanceOf(other), 0, "nothing");
        SidequestAccount.Call[] memory calls = new SidequestAccount.Call[](1);
        calls[0] = SidequestAccount.Call(address(escrow), 0, abi.encodeCall(IEscrow.settle, (bytes32(0))));
        vm.prank(wallet);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.WrongStatus.selector, bytes32(0), IEscrow.Status.None));
        account.execute(calls);
    }

    function test_ASignedBatchCanBeTakenBack() public {
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(SidequestAccount.NotSelf.selector, other));
        account.cancelNonce(9);
        vm.prank(wallet);
        account.cancelNonce(9);
        bytes memory signature = signed(KEY, batchDigest(transfers(5e6), 9, START + 60));
        vm.expectRevert(abi.encodeWithSelector(SidequestAccount.NonceReused.selector, 9));
        account.executeSigned(transfers(5e6), 9, START + 60, signature);
    }

    function test_ADelegatedWalletHoldsIdentitiesAndMoney() public {
        vm.deal(address(this), 1 ether);
        (bool ok,) = wallet.call{value: 1 ether}("");
        yes(ok, "takes value");
        vm.prank(wallet);
        uint256 id = identity.register("ipfs://delegated");
        eq(identity.ownerOf(id), wallet, "owner");
        vm.prank(wallet);
        identity.safeTransferFrom(wallet, creator, id);
        vm.prank(creator);
        identity.safeTransferFrom(creator, wallet, id);
        eq(identity.ownerOf(id), wallet, "back");
    }

    function test_ADelegatedCreatorPublishesSelectsAndPaysByItsKey() public {
        IEscrow.Terms memory t = terms();
        t.creator = wallet;
        bytes32 id = escrow.jobIdOf(t);
        bytes memory money = signed(KEY, receiveDigest(wallet, REWARD + CREATOR_BOND, START + 60, id));
        escrow.publishWithAuthorization(t, 0, START + 60, money);
        IEscrow.Selection memory s = selection(id);
        escrow.select(s, signed(KEY, selectionDigest(s, block.chainid, address(escrow))));
        eq(escrow.job(id).worker, worker, "selected");
    }

    function test_OnlyTheKeyOfTheWalletCountsWhateverItsStorageHolds() public {
        // what other code left behind in the first slots of the wallet
        for (uint256 i = 0; i < 8; i++) {
            vm.store(wallet, bytes32(i), bytes32(type(uint256).max));
        }
        yes(!account.nonceUsed(0), "not used");
        bytes32 digest = keccak256("anything");
        eq(uint32(account.isValidSignature(digest, signed(KEY, digest))), 0x1626ba7e, "the key's");
    }
}
