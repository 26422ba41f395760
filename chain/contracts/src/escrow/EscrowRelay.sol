// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IEscrow} from "./IEscrow.sol";
import {Signatures} from "../Signatures.sol";

/// @title Whose word a call is: that of its sender, or of a signer whose call somebody else sends.
/// @notice A relayed call is a call of the contract to itself, for which it remembers the signer as long as it lasts.
/// Nothing is read from the end of the call data, so nothing can be smuggled in there.
abstract contract EscrowRelay is IEscrow, EIP712 {
    using BitMaps for BitMaps.BitMap;

    bytes32 private constant CALL_TYPEHASH =
        keccak256("Call(address signer,bytes data,uint256 nonce,uint256 deadline)");
    bytes32 private constant SELECTION_TYPEHASH =
        keccak256("Selection(bytes32 jobId,address worker,uint256 workerAgentId,uint64 activateBy,uint64 nonce)");

    address private transient _signer;
    mapping(address signer => BitMaps.BitMap) private _nonces;

    constructor() EIP712("SidequestEscrow", "1") {}

    /// @inheritdoc IEscrow
    function relay(Call calldata call, bytes calldata signature) external {
        if (_signer != address(0)) revert RelayInRelay();
        if (block.timestamp >= call.deadline) revert TooLate(call.deadline);
        if (!_relayable(bytes4(call.data))) revert NotRelayable(bytes4(call.data));
        bytes32 structHash =
            keccak256(abi.encode(CALL_TYPEHASH, call.signer, keccak256(call.data), call.nonce, call.deadline));
        _requireSigned(call.signer, structHash, signature);
        _useNonce(call.signer, call.nonce);
        _signer = call.signer;
        (bool ok, bytes memory answer) = address(this).call(call.data);
        _signer = address(0);
        Address.verifyCallResult(ok, answer);
    }

    /// @inheritdoc IEscrow
    function cancelCall(uint256 nonce) external {
        _useNonce(msg.sender, nonce);
    }

    function callNonceUsed(address signer, uint256 nonce) external view returns (bool) {
        return _nonces[signer].get(nonce);
    }

    /// @dev The account whose word the call is.
    function _sender() internal view returns (address) {
        return msg.sender == address(this) ? _signer : msg.sender;
    }

    function _requireSelectedBy(address creator, Selection calldata s, bytes calldata signature) internal view {
        bytes32 structHash =
            keccak256(abi.encode(SELECTION_TYPEHASH, s.jobId, s.worker, s.workerAgentId, s.activateBy, s.nonce));
        _requireSigned(creator, structHash, signature);
    }

    function _requireSigned(address signer, bytes32 structHash, bytes calldata signature) private view {
        if (!Signatures.isBy(signer, _hashTypedDataV4(structHash), signature)) revert BadSignature();
    }

    function _useNonce(address signer, uint256 nonce) private {
        if (_nonces[signer].get(nonce)) revert NonceReused(nonce);
        _nonces[signer].set(nonce);
        emit CallNonceUsed(signer, nonce);
    }

    /// @dev What parties do, and nothing of the contract's own.
    function _relayable(bytes4 f) private pure returns (bool) {
        return f == IEscrow.publish.selector || f == IEscrow.select.selector || f == IEscrow.activate.selector
            || f == IEscrow.submit.selector || f == IEscrow.approve.selector || f == IEscrow.reject.selector
            || f == IEscrow.dispute.selector || f == IEscrow.rule.selector || f == IEscrow.cancel.selector
            || f == IEscrow.withdraw.selector;
    }
}
